$t = ''
$n = $script:seq + 1
$asInput = [Console]::TreatControlCAsInput
try {
	[Console]::TreatControlCAsInput = $true
	do {
		$line = [Collections.Generic.List[byte]]::new()
		$state = 0
		for (;;) {
			if ($ahead) {
				# The host's question for the cursor took with the answer what lay before it.
				$ahead = [Console]::KeyAvailable
				if ($ahead) {
					$char = [string][Console]::ReadKey($true).KeyChar
					if ([char]::IsHighSurrogate($char, 0)) { $char += [Console]::ReadKey($true).KeyChar }
					$typed = $script:utf8.GetBytes($char)
				}
			}
			if (-not $ahead) {
				try { $got = $script:tty.Read($script:key, 0, 1) } catch { $got = 0 }
				if (-not $got) { return 'exit' }
				$typed = $script:key
			}
			$b = $typed[0]
			$cr = $script:cr
			$script:cr = $b -eq 13
			if ($state) {
				# ESC starts a sequence: ESC [ goes on to its final byte, ESC O takes one more.
				$state = if ($state -eq 1 -and $b -eq 91) { 3 } elseif ($state -eq 1 -and $b -eq 79) { 2 } elseif ($state -eq 3 -and ($b -lt 64 -or $b -gt 126)) { 3 } else { 0 }
				continue
			}
			$show = $null
			if ($b -ge 32 -and $b -ne 127 -or $b -eq 9) {
				$line.AddRange([byte[]]$typed)
				$script:out.Write($typed, 0, $typed.Length)
			}
			elseif ($b -eq 13 -or $b -eq 10) {
				if ($b -eq 10 -and $cr) { continue }
				$script:out.WriteByte(10)
				break
			}
			elseif ($b -eq 27) { $state = 1 }
			elseif ($b -eq 3) {
				$t = $null
				$show = "^C`n"
			}
			elseif ($b -eq 4) {
				if (-not $line.Count -and -not $t) { return 'exit' }
			}
			elseif ($line.Count -and ($b -eq 8 -or $b -eq 127 -or $b -eq 21)) {
				# The last character, or all of them.
				do {
					$b0 = $line[-1]
					$line.RemoveAt($line.Count - 1)
					if (($b0 -band 0xC0) -ne 0x80) { $show += "`b `b" }
				} while ($line.Count -and ($b -eq 21 -or ($b0 -band 0xC0) -eq 0x80))
			}
			if ($show) {
				$m = $script:utf8.GetBytes($show)
				$script:out.Write($m, 0, $m.Length)
				if ($null -eq $t) { return '' }
			}
		}
		$t += $script:utf8.GetString($line.ToArray())
		$errors = $null
		$null = [Management.Automation.Language.Parser]::ParseInput($t, [ref]$null, [ref]$errors)
		$more = $false
		foreach ($x in $errors) { if ($x.IncompleteInput) { $more = $true } }
		if ($more) {
			$t += "`n"
			$m = $script:utf8.GetBytes("`e]7771;@SECRET@;P;$($script:seq)`e\>> ")
			$script:out.Write($m, 0, $m.Length)
		}
	} while ($more)
}
finally { [Console]::TreatControlCAsInput = $asInput }
