if ($PSVersionTable.PSVersion.Major * 100 + $PSVersionTable.PSVersion.Minor -lt 702) {
	[Console]::Error.WriteLine("this is PowerShell $($PSVersionTable.PSVersion); 7.2 or later is needed")
	exit 1
}
$null = New-Module shellstead -ArgumentList $global:__shs {
param($in)
@OPEN@
[Environment]::SetEnvironmentVariable('DOTNET_EnableDiagnostics', [NullString]::Value)
[Environment]::SetEnvironmentVariable('POWERSHELL_DIAGNOSTICS_OPTOUT', [NullString]::Value)
if ([Environment]::GetEnvironmentVariable('TERM') -ceq '@TERM@') { [Environment]::SetEnvironmentVariable('TERM', 'xterm-256color') }
$out = [Console]::OpenStandardOutput()
$vars = $ExecutionContext.SessionState.PSVariable
$place = $ExecutionContext.SessionState.Path
$utf8 = [Text.UTF8Encoding]::new($false)
$seq = [int64]0
$depth = 0
$lec = $err = $null
$bad = $false
$sure = $was = $true
$read = {
	[Diagnostics.DebuggerHidden()]param()
	$ok = $?
	if ($MyInvocation.Line -or $MyInvocation.CommandOrigin -ne 'Runspace') { return }
	$ec = $script:vars.GetValue('global:LASTEXITCODE')
	$e = $global:Error
	$e = if ($e -is [Collections.IList] -and $e.Count) { $e[0] }
	$new = -not [object]::ReferenceEquals($ec, $script:lec)
	$level = $script:vars.GetValue('global:NestedPromptLevel') -as [int]
	$code = 0
	if ($level -gt $script:depth) { }
	elseif ($script:bad) { $code = 1 }
	elseif (-not $ok) {
		if ($new -and $ec -is [int] -and $ec -ne 0) { $code = $ec }
		elseif ($script:sure -or $script:was -or $new -or -not [object]::ReferenceEquals($e, $script:err)) { $code = 1 }
	}
	$script:was = $ok
	$script:lec = $ec
	$script:err = $e
	$script:bad = $false
	$script:depth = $level
	$cwd = try { [Convert]::ToBase64String($script:utf8.GetBytes($script:place.CurrentFileSystemLocation.ProviderPath)) } catch { '' }
	do {
		$m = "`e]7771;@SECRET@;D;$($script:seq);$code;$level;$cwd`e\"
		$a = "`e]7771;@SECRET@;A;$($script:seq)`e\"
		@SHOW@
		$m = $script:utf8.GetBytes($m + $a)
		$script:out.Write($m, 0, $m.Length)
		@NEXT@
		$script:seq = [Math]::Abs($n)
	} until ($n -gt 0)
	$m = $script:utf8.GetBytes("`e]7771;@SECRET@;S;$($script:seq)`e\")
	$script:out.Write($m, 0, $m.Length)
	$errors = $null
	$tree = [Management.Automation.Language.Parser]::ParseInput($t, [ref]$null, [ref]$errors)
	if ($errors) {
		$script:bad = $true
		foreach ($x in $errors) {
			if ($x.IncompleteInput) {
				return "Microsoft.PowerShell.Utility\Invoke-Expression '" + [Management.Automation.Language.CodeGeneration]::EscapeSingleQuotedStringContent($t) + "'"
			}
		}
	}
	$block = $tree.EndBlock
	$last = if ($block -and $block.Statements.Count) { $block.Statements[-1] }
	$script:sure = $last -is [Management.Automation.Language.PipelineBaseAst] -or $tree.ProcessBlock -or $tree.BeginBlock
	$t
}
$constant = 'Constant,AllScope'
Remove-Module PSReadLine -ErrorAction Ignore
Set-Item function:global:PSConsoleHostReadLine $read -Options $constant
Set-Item function:global:__shs_read $read -Options $constant
Set-Item function:global:__shs_prompt { [Diagnostics.DebuggerHidden()]param() "`e[0m" } -Options $constant
Set-Alias prompt __shs_prompt -Scope Global -Option $constant
Set-Alias PSConsoleHostReadLine __shs_read -Scope Global -Option $constant
}
Remove-Variable __shs -Scope Global -ErrorAction Ignore
$ProgressPreference = 'SilentlyContinue'
@RENDERING@
