// Names: folders, links, renames, attributes and what inotify says of them.
#include <dirent.h>
#include <sys/inotify.h>
#include <sys/stat.h>
int main(void) {
    char base[] = "/tmp/everypath-sweep-XXXXXX", name[128], buffer[4096] __attribute__((aligned(8)));
    if (!mkdtemp(base)) return 3;
    u64 digest = 0;
    int folder = open(base, O_RDONLY | O_DIRECTORY), watch = inotify_init1(IN_NONBLOCK);
    MUST(folder);
    MUST(inotify_add_watch(watch, base, IN_CREATE | IN_DELETE | IN_MOVE));
    for (int i = 0; i < 6; i++) {
        snprintf(name, sizeof name, "f%02d-%llx", i, (unsigned long long)(work((u64)i) & 0xffff));
        int file = openat(folder, name, O_CREAT | O_WRONLY, 0640);
        MUST(write(file, name, strlen(name)));
        struct stat stat;
        MUST(fstatat(folder, name, &stat, 0));
        digest = mix(mix(digest, (u64)stat.st_size), stat.st_mode);
        MUST(close(file));
        MUST(symlinkat(name, folder, "link"));
        MUST(readlinkat(folder, "link", buffer, sizeof buffer));
        MUST(unlinkat(folder, "link", 0));
        MUST(renameat(folder, name, folder, "kept"));
        ssize_t size = read(watch, buffer, sizeof buffer);
        for (ssize_t at = 0; at < size;) {
            struct inotify_event *event = (void *)(buffer + at);
            digest = mix(mix_bytes(digest, event->name, strlen(event->name)), event->mask);
            at += (ssize_t)sizeof *event + event->len;
        }
    }
    u64 entries = 0;
    DIR *listing = fdopendir(dup(folder));
    for (struct dirent *entry; (entry = readdir(listing));) entries += strlen(entry->d_name);
    closedir(listing);
    MUST(unlinkat(folder, "kept", 0));
    MUST(rmdir(base));
    show("entries", entries);
    show("digest", mix(digest, work(entries)));
}
