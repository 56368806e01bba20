// Runs one kernel of the host device as kspec/host does through ctypes, without Python.
//
//   driver RUNTIME MODULE ENTRY BLOCKS THREADS TIMEOUT FILE
//
// The kernel takes a pointer to the bytes of FILE and their count; what it leaves replaces them. Its
// fault is printed, if there is one. OPTIONS_BYTES is the size of LaunchOptions of rt/rt.cc; zeros
// check nothing and run every block.
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// Fault of rt/state.h begins with these.
struct Fault {
  char kind[40];
  char message[4096];
};

static void* opened(const char* path) {
  void* library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (library) return library;
  fprintf(stderr, "%s\n", dlerror());
  exit(2);
}

int main(int count, char** words) {
  if (count != 8) return 2;
  dlopen("libm.so.6", RTLD_NOW | RTLD_GLOBAL);  // which a process of Python has
  void *runtime = opened(words[1]), *module = opened(words[2]);
  unsigned (*bind)(void*) = dlsym(runtime, "kspec_host_bind");
  void* (*allocate)(size_t, size_t) = dlsym(runtime, "kspec_host_allocate");
  void* (*address)(void*) = dlsym(runtime, "kspec_host_address");
  const struct Fault* (*fault)(void) = dlsym(runtime, "kspec_host_fault");
  int (*launch)(void*, const unsigned*, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
                unsigned, unsigned, void**, unsigned, int, double, const void*) =
      dlsym(runtime, "kspec_host_launch");
  char name[64];
  snprintf(name, sizeof name, "kspec_sizes_%s", words[3] + strlen("kspec_entry_"));
  void* entry = dlsym(module, words[3]);
  const unsigned* (*sizes)(void) = dlsym(module, name);
  unsigned slots = bind(dlsym(module, "kspec_bind"));

  FILE* file = fopen(words[7], "r+b");
  if (!file || !entry || !sizes) return 2;
  fseek(file, 0, SEEK_END);
  long long bytes = ftell(file);
  rewind(file);
  void* data = address(allocate(bytes, 16));
  if (fread(data, 1, bytes, file) != (size_t)bytes) return 2;
  void* parameters[] = {&data, &bytes};
  _Alignas(8) char options[OPTIONS_BYTES] = {0};
  int outcome = launch(entry, sizes(), slots, atoi(words[4]), 1, 1, atoi(words[5]), 1, 1, 0,
                       parameters, 2, 0, atof(words[6]), options);
  rewind(file);
  fwrite(data, 1, bytes, file);
  fclose(file);
  if (outcome) printf("%s: %s\n", fault()->kind, fault()->message);
  return 0;
}
