// Memory that is mapped, grown, moved, made unreadable, given back and mapped at the same place.
int main(void) {
    u64 digest = 0;
    char *fixed = 0;
    for (int i = 0; i < 12; i++) {
        char *memory = mmap(fixed, 16384, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | (fixed ? MAP_FIXED : 0), -1, 0);
        MUST(memory);
        for (int at = 0; at < 16384; at += 1024) *(u64 *)(memory + at) = work((u64)(i + at));
        memory = mremap(memory, 16384, 65536, MREMAP_MAYMOVE);
        MUST(memory);
        digest = mix_bytes(mix(digest, *(u64 *)(memory + 32768)), memory, 2048);
        MUST(mprotect(memory + 4096, 4096, PROT_NONE));
        MUST(mprotect(memory + 4096, 4096, PROT_READ));
        digest = mix(digest, *(u64 *)(memory + 5120));
        MUST(madvise(memory + 8192, 4096, MADV_DONTNEED));
        digest = mix(digest, *(u64 *)(memory + 8192));
        MUST(munmap(memory + 4096, 61440));
        fixed = memory;
    }
    show("digest", digest);
}
