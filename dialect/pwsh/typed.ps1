$n = 0
while (-not $n) {
	$line = ''
	for (;;) {
		try { $got = $script:tty.Read($script:key, 0, 1) } catch { $got = 0 }
		if (-not $got) { return 'exit' }
		if ($script:key[0] -eq 10) { break }
		$line += [char]$script:key[0]
	}
	$n = $line.Substring($line.LastIndexOf('#') + 1) -as [int64]
	if ($line.EndsWith('#0')) { foreach ($pair in [IO.File]::ReadAllText('@ENVIRONMENT@').Split([char]0)) { @SET@ } }
	if ($n -gt 0) { try { $t = $script:utf8.GetString([IO.File]::ReadAllBytes('@FILE@')) } catch { $n = 0 } }
}
