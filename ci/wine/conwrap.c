// conwrap PROGRAM ARGUMENTS…: gives the program the console's handles where it
// has none, and returns its exit code. Wine 8 gives a program in a pseudo console
// no standard handles; Windows does.
#include <windows.h>

static HANDLE standard(DWORD which, const wchar_t *name) {
  HANDLE h = GetStdHandle(which);
  if (h && h != INVALID_HANDLE_VALUE && GetFileType(h) != FILE_TYPE_UNKNOWN) {
    SetHandleInformation(h, HANDLE_FLAG_INHERIT, HANDLE_FLAG_INHERIT);
    return h;
  }
  SECURITY_ATTRIBUTES inherit = {sizeof inherit, NULL, TRUE};
  return CreateFileW(name, GENERIC_READ | GENERIC_WRITE, FILE_SHARE_READ | FILE_SHARE_WRITE, &inherit, OPEN_EXISTING, 0, NULL);
}

// Ctrl-C is for the program.
static BOOL WINAPI stay(DWORD event) { return event == CTRL_C_EVENT; }

int main(void) {
  STARTUPINFOW startup = {sizeof startup};
  PROCESS_INFORMATION process;
  startup.dwFlags = STARTF_USESTDHANDLES;
  startup.hStdInput = standard(STD_INPUT_HANDLE, L"CONIN$");
  startup.hStdOutput = standard(STD_OUTPUT_HANDLE, L"CONOUT$");
  startup.hStdError = standard(STD_ERROR_HANDLE, L"CONOUT$");
  wchar_t *line = GetCommandLineW();  // without the own name
  if (*line == L'"') {
    for (line++; *line && *line != L'"'; line++);
    if (*line) line++;
  } else {
    while (*line && *line != L' ') line++;
  }
  while (*line == L' ') line++;
  if (!CreateProcessW(NULL, line, NULL, NULL, TRUE, 0, NULL, NULL, &startup, &process)) return 98;
  SetConsoleCtrlHandler(stay, TRUE);
  WaitForSingleObject(process.hProcess, INFINITE);
  DWORD code = 97;
  GetExitCodeProcess(process.hProcess, &code);
  ExitProcess(code);
}
