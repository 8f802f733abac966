try {
	$n = $script:in.ReadInt64()
	if ($n -gt 0) { $t = $script:in.ReadString() }
}
catch { return 'exit' }
