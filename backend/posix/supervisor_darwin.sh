# Ends what a host that has died left open. Processes that hide their
# environment are found by their parents alone.
trap '' HUP INT QUIT TERM TSTP
nl='
'
live=
while IFS= read -r line; do
	op=${line%% *}
	line=${line#* }
	mark=${line%% *}
	rest=${line#* }
	case $op in
	add)
		live="$live $mark"
		eval "pid_$mark=0 start_$mark= dirs_$mark="
		;;
	run) eval "pid_$mark=\${rest%% *} start_$mark=\${rest#* }" ;;
	dir) eval "dirs_$mark=\"\$dirs_$mark\$rest\$nl\"" ;;
	del)
		kept=
		for m in $live; do
			[ "$m" = "$mark" ] || kept="$kept $m"
		done
		live=$kept
		unset "pid_$mark" "start_$mark" "dirs_$mark"
		;;
	esac
done
[ -n "$live" ] || exit 0

# started PID: its start time with single blanks.
started() {
	set -- $(ps -o lstart= -p "$1")
	echo "$*"
}

# scan: the numbers of all members.
scan() {
	members=
	for m in $live; do
		eval "leader=\$pid_$m since=\$start_$m"
		if [ "$leader" -gt 1 ] && [ "$(started "$leader")" = "$since" ]; then
			members="$members $leader"
		fi
	done
	for m in $live; do
		found=$(ps -axEww -o pid=,stat=,command= | while read -r pid state rest; do
			case $state in Z*) continue ;; esac
			case $rest in *"$m=1"*) [ "$pid" -gt 1 ] && echo "$pid" ;; esac
		done)
		[ -z "$found" ] || members="$members $found"
	done
	table=$(ps -axo pid=,ppid=,stat=)
	grew=1
	while [ -n "$grew" ]; do
		grew=
		found=$(echo "$table" | while read -r pid parent state; do
			case $state in Z*) continue ;; esac
			case " $(echo $members) " in
			*" $pid "*) ;;
			*" $parent "*) echo "$pid" ;;
			esac
		done)
		[ -z "$found" ] || { members="$members $found" grew=1; }
	done
	# The start time goes with the number: a signal is for that process only.
	rows=
	for pid in $members; do
		rows="$rows$pid $(started "$pid")$nl"
	done
}

# hit SIGNAL: send it to all members that are still the same processes.
hit() {
	echo "$rows" | while read -r pid since; do
		[ -n "$since" ] && [ "$(started "$pid")" = "$since" ] && kill -s "$1" "$pid"
	done
}

pause() { sleep 0.05 || sleep 1; }

scan
hit HUP
hit TERM
hit CONT
round=0
while [ -n "$members" ] && [ $round -lt 6 ]; do
	pause
	scan
	round=$((round + 1))
done
round=0
while [ -n "$members" ] && [ $round -lt 100 ]; do
	hit STOP
	scan
	hit KILL
	pause
	scan
	round=$((round + 1))
done

for m in $live; do
	eval "dirs=\$dirs_$m"
	while [ -n "$dirs" ]; do
		rm -rf -- "${dirs%%"$nl"*}"
		dirs=${dirs#*"$nl"}
	done
done
