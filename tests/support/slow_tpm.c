/* A software TPM that takes its time, command by command.
 *
 * Preloaded into swtpm, whose TPM is the library libtpms. SLOW_TPM says how long each command takes on top, as
 * command codes and microseconds: SLOW_TPM=15d=2000,161=8500
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdint.h>
#include <stdlib.h>
#include <unistd.h>

typedef uint32_t (*process)(unsigned char **, uint32_t *, uint32_t *, unsigned char *, uint32_t);

static unsigned long pause_of(unsigned long code) {
    const char *at = getenv("SLOW_TPM");
    while (at && *at) {
        char *end;
        unsigned long listed = strtoul(at, &end, 16);
        unsigned long pause = *end == '=' ? strtoul(end + 1, &end, 10) : 0;
        if (listed == code) return pause;
        at = *end == ',' ? end + 1 : 0;
    }
    return 0;
}

uint32_t TPMLIB_Process(unsigned char **response, uint32_t *used, uint32_t *size, unsigned char *command,
                        uint32_t length) {
    process real = (process)dlsym(RTLD_NEXT, "TPMLIB_Process");
    if (length >= 10) {
        unsigned long code = (unsigned long)command[6] << 24 | command[7] << 16 | command[8] << 8 | command[9];
        usleep(pause_of(code));
    }
    return real(response, used, size, command, length);
}
