/* Allocations that libc makes for its caller or for itself. The oracle knows how many. */
#include "target.h"
#include <dirent.h>
#include <fnmatch.h>
#include <glob.h>
#include <iconv.h>
#include <locale.h>
#include <regex.h>
#include <search.h>
#include <spawn.h>
#include <sys/wait.h>
#include <wchar.h>
#include <wordexp.h>

static int by_number(const void *a, const void *b) {
    return *(const int *)a - *(const int *)b;
}

static void leave(void *node) {
    (void)node;
}

int main(void) {
    for (int round = 0; round < 20; round++) {
        char *copy = strdup("strdup allocates");
        char *part = strndup(copy, 6);
        wchar_t *wide = wcsdup(L"wide");
        char *text = NULL;
        CHECK(asprintf(&text, "%s %d %*d", copy, round, 300, 7) > 300);
        say("%s %zu %zu\n", part, wcslen(wide), strlen(text));
        free(text);
        free(wide);
        free(part);
        free(copy);

        FILE *file = tmpfile();
        CHECK(file);
        for (int i = 0; i < 200; i++)
            fprintf(file, "%0*d\n", i + 1, i);
        rewind(file);
        char *line = NULL;
        size_t room = 0, sum = 0;
        ssize_t length;
        while ((length = getline(&line, &room, file)) > 0)
            sum += (size_t)length;
        free(line);
        fclose(file);
        say("getline %zu\n", sum);

        DIR *dir = opendir("/proc/self");
        CHECK(dir);
        CHECK(readdir(dir));
        closedir(dir);
        struct dirent **names;
        int found = scandir("/usr/include", &names, NULL, alphasort);
        CHECK(found > 2);
        for (int i = 0; i < found; i++)
            free(names[i]);
        free(names);

        char *here = getcwd(NULL, 0), *real = realpath("/proc/self/../self/exe", NULL);
        CHECK(here && real);
        free(real);
        free(here);

        char *memory = NULL;
        size_t bytes = 0;
        FILE *stream = open_memstream(&memory, &bytes);
        for (int i = 0; i < 3000; i++)
            fprintf(stream, "%d,", i);
        fclose(stream);
        say("memstream %zu\n", bytes);
        free(memory);

        enum { MANY = 100000 };
        int *numbers = malloc(MANY * sizeof *numbers);
        for (int i = 0; i < MANY; i++)
            numbers[i] = (int)((unsigned)i * 2654435761u >> 8);
        qsort(numbers, MANY, sizeof *numbers, by_number);
        for (int i = 1; i < MANY; i++)
            CHECK(numbers[i - 1] <= numbers[i]);
        void *root = NULL;
        for (int i = 0; i < 100; i++)
            CHECK(tsearch(&numbers[i], &root, by_number));
        tdestroy(root, leave);
        free(numbers);

        regex_t expression;
        CHECK(regcomp(&expression, "(a|b)*c[[:digit:]]{2,5}$", REG_EXTENDED) == 0);
        CHECK(regexec(&expression, "ababc123", 0, NULL, 0) == 0);
        regfree(&expression);
        glob_t globbed;
        CHECK(glob("/proc/self/st*", 0, NULL, &globbed) == 0);
        globfree(&globbed);
        wordexp_t words;
        CHECK(wordexp("a $((1+2)) 'b c'", &words, 0) == 0);
        say("words %zu %s\n", words.we_wordc, words.we_wordv[1]);
        wordfree(&words);
        CHECK(setlocale(LC_ALL, "C.UTF-8"));
        CHECK(setlocale(LC_ALL, "C"));
        iconv_t conversion = iconv_open("UTF-16LE", "UTF-8");
        CHECK(conversion != (iconv_t)-1);
        iconv_close(conversion);
        char name[32];
        snprintf(name, sizeof name, "TARGET_%d", round);
        CHECK(setenv(name, "value", 1) == 0);
        CHECK(putenv(strdup("TARGET_PUT=1")) == 0);
    }
    return 0;
}
