// bcryptprimitives.dll: Go's runtime loads it in every process, and Wine 8 has
// none. Besides the one function it mends a call that Go removes folders by.
#include <windows.h>
#include <winternl.h>
#include <ntsecapi.h>
#include <string.h>

__declspec(dllexport) BOOL WINAPI ProcessPrng(BYTE *data, SIZE_T size) {
  return RtlGenRandom(data, (ULONG)size);
}

typedef NTSTATUS(NTAPI *set_t)(HANDLE, IO_STATUS_BLOCK *, void *, ULONG, ULONG);
static set_t original;

// Wine 8 does not know FileDispositionInformationEx (64) and says so by a status
// that Go does not take for that. FileDispositionInformation (13) does the same
// for files that nobody has open.
static NTSTATUS NTAPI set(HANDLE file, IO_STATUS_BLOCK *io, void *info, ULONG length, ULONG class) {
  if (class == 64 && length >= sizeof(ULONG)) {
    BOOLEAN remove = *(ULONG *)info & 1;
    return original(file, io, &remove, sizeof remove, 13);
  }
  return original(file, io, info, length, class);
}

// hook has calls of NtSetInformationFile come here. The stub of a system call in
// Wine's ntdll has 32 bytes and no relative address beyond them.
static void hook(void) {
  unsigned char *stub = (unsigned char *)GetProcAddress(GetModuleHandleA("ntdll.dll"), "NtSetInformationFile");
  DWORD old;
  if (!stub || memcmp(stub, "\x4c\x8b\xd1\xb8", 4)) return;
  unsigned char *copy = VirtualAlloc(NULL, 4096, MEM_COMMIT | MEM_RESERVE, PAGE_EXECUTE_READWRITE);
  if (!copy || !VirtualProtect(stub, 16, PAGE_EXECUTE_READWRITE, &old)) return;
  memcpy(copy, stub, 32);
  original = (set_t)(void *)copy;
  set_t target = set;
  memcpy(stub, "\x48\xb8", 2);  // mov rax, target; jmp rax
  memcpy(stub + 2, &target, sizeof target);
  memcpy(stub + 10, "\xff\xe0", 2);
  VirtualProtect(stub, 16, old, &old);
}

BOOL WINAPI DllMain(HINSTANCE self, DWORD reason, void *reserved) {
  (void)self, (void)reserved;
  if (reason == DLL_PROCESS_ATTACH) hook();
  return TRUE;
}
