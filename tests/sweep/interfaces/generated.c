// Code made at run time calls the class: written, protected, rewritten, unmapped, and in two views.
typedef u64 (*made)(u64);
// mov rax, imm64; add rdi, imm32; jmp rax
static void write_code(unsigned char *at, u64 (*target)(u64), int add) {
    memcpy(at, "\x48\xb8", 2);
    memcpy(at + 2, &target, 8);
    memcpy(at + 10, "\x48\x81\xc7", 3);
    memcpy(at + 13, &add, 4);
    memcpy(at + 17, "\xff\xe0", 2);
}
int main(void) {
    u64 digest = 0;
    int file = memfd_create("code", 0);
    MUST(file);
    MUST(ftruncate(file, 4096));
    unsigned char *view = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    unsigned char *code = mmap(0, 4096, PROT_READ | PROT_EXEC, MAP_SHARED, file, 0);
    for (int i = 0; i < 10; i++) {
        write_code(view, work, i);
        digest = mix(digest, ((made)code)(100));
        unsigned char *own = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        write_code(own, work, i * 3);
        MUST(mprotect(own, 4096, PROT_READ | PROT_EXEC));
        digest = mix(digest, ((made)own)(5));
        MUST(mprotect(own, 4096, PROT_READ | PROT_WRITE | PROT_EXEC));
        write_code(own, work, i * 5);
        digest = mix(digest, ((made)own)(5));
        MUST(munmap(own, 4096));
    }
    show("digest", digest);
}
