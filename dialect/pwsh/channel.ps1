try {
	while (-not ($n = $script:in.ReadInt64())) {
		$pair = $script:in.ReadString()
		@SET@
	}
	if ($n -gt 0) { $t = $script:in.ReadString() }
}
catch { return 'exit' }
