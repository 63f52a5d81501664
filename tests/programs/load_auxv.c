// The auxiliary vector describes the program itself: its headers, entry,
// name, page size; the interpreter has a base; AT_RANDOM is readable.
// build: cc -O1 -pie -fPIE
// run: oracle own-functions
#include <elf.h>
#include <link.h>
#include <stdio.h>
#include <string.h>
#include <sys/auxv.h>
#include <unistd.h>
extern char _start[], __ehdr_start[];
int main(int argc, char **argv) {
    Elf64_Ehdr *ehdr = (Elf64_Ehdr *)__ehdr_start;
    printf("phdr %d\n", getauxval(AT_PHDR) == (unsigned long)__ehdr_start + ehdr->e_phoff);
    printf("phnum %d\n", getauxval(AT_PHNUM) == ehdr->e_phnum);
    printf("phent %lu\n", getauxval(AT_PHENT));
    printf("entry %d\n", getauxval(AT_ENTRY) == (unsigned long)_start);
    printf("pagesz %lu\n", getauxval(AT_PAGESZ));
    printf("base %d\n", *(unsigned *)getauxval(AT_BASE) == 0x464c457f);
    printf("secure %lu\n", getauxval(AT_SECURE));
    printf("flags %lu\n", getauxval(AT_FLAGS));
    printf("execfn %d\n", strcmp((char *)getauxval(AT_EXECFN), argv[0]) == 0);
    unsigned char *r = (unsigned char *)getauxval(AT_RANDOM), any = 0;
    for (int i = 0; i < 16; i++) any |= r[i];
    printf("random %d\n", any != 0);
    printf("uid %d\n", getauxval(AT_UID) == getuid());
    printf("vdso %d\n", getauxval(AT_SYSINFO_EHDR) != 0);
    printf("minsigstksz %lu\n", getauxval(AT_MINSIGSTKSZ));
    printf("platform %s\n", (char *)getauxval(AT_PLATFORM));
    return 0;
}
