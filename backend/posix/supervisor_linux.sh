# Ends what a host that has died left open. Only built-in commands, sleep and rm
# are used: the host's system may have no others.
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
		eval "pid_$mark=0 start_$mark=0 limit_$mark=0 dirs_$mark="
		;;
	run) eval "pid_$mark=\${rest% *} start_$mark=\${rest#* }" ;;
	lim) eval "limit_$mark=\$rest" ;;
	dir) eval "dirs_$mark=\"\$dirs_$mark\$rest\$nl\"" ;;
	del)
		kept=
		for m in $live; do
			[ "$m" = "$mark" ] || kept="$kept $m"
		done
		live=$kept
		unset "pid_$mark" "start_$mark" "limit_$mark" "dirs_$mark"
		;;
	esac
done
[ -n "$live" ] || exit 0

# stat PID: state, parent, session and start time. The name before them may hold
# any byte, so the fields are what follows the last parenthesis.
stat() {
	text=
	while IFS= read -r part || [ -n "$part" ]; do text=$part; done <"/proc/$1/stat"
	set -- ${text##*)}
	[ $# -ge 20 ] || return 1
	state=$1 parent=$2 session=$4
	shift 19
	start=$1
}

# marked PID: it was started with the variable of an open terminal, or has its
# resource limit.
marked() {
	while IFS= read -r part || [ -n "$part" ]; do
		for m in $live; do
			case $part in *"$m=1"*) return 0 ;; esac
		done
	done <"/proc/$1/environ"
	while IFS= read -r part; do
		case $part in
		'Max realtime timeout '*)
			for m in $live; do
				eval "limit=\$limit_$m"
				case $part in *" $limit "*) [ "$limit" != 0 ] && return 0 ;; esac
			done
			;;
		esac
	done <"/proc/$1/limits"
	return 1
}

# ours PID: it belongs to an open terminal whatever its parent is. A session
# counts in the first scan only: later its number may be somebody else's.
ours() {
	case "$known " in *" $1:$start "*) return 0 ;; esac
	for m in $live; do
		eval "leader=\$pid_$m since=\$start_$m"
		[ "$leader" -gt 1 ] && [ "$start" -ge "$since" ] || continue
		[ "$1" = "$leader" ] && [ "$start" = "$since" ] && return 0
		[ -n "$first" ] && [ "$session" = "$leader" ] && return 0
	done
	marked "$1"
}

# scan: members, as PID:START.
scan() {
	members= pids=' ' others=
	for folder in /proc/[0-9]*; do
		pid=${folder#/proc/}
		[ "$pid" -gt 1 ] && [ "$pid" != $$ ] && stat "$pid" || continue
		[ "$start" -ge "$oldest" ] || continue
		case $state in Z | X) continue ;; esac
		if ours "$pid"; then
			members="$members $pid:$start" pids="$pids$pid "
		else
			others="$others $pid:$parent:$start"
		fi
	done
	grew=1
	while [ -n "$grew" ]; do
		grew= left=
		for row in $others; do
			pid=${row%%:*}
			row=${row#*:}
			case $pids in
			*" ${row%:*} "*) members="$members $pid:${row#*:}" pids="$pids$pid " grew=1 ;;
			*) left="$left $pid:$row" ;;
			esac
		done
		others=$left
	done
	known="$known$members" first=
}

# hit SIGNAL: send it to all members that are still the same processes.
hit() {
	for row in $members; do
		stat "${row%:*}" && [ "$start" = "${row#*:}" ] && kill -s "$1" "${row%:*}"
	done
}

pause() { sleep 0.05 || sleep 1; }

oldest=
for m in $live; do
	eval "since=\$start_$m"
	if [ -z "$oldest" ] || [ "$since" -lt "$oldest" ]; then oldest=$since; fi
done
known= first=1
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
