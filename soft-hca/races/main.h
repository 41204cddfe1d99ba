/* What the command line says, of programs with a table of cases. */

static void run_all(int racy)
{
    for (int number = 0; number < CASES; number++) {
        int status;
        fflush(stdout);
        pid_t child = fork();
        must(child >= 0, "fork");
        if (child == 0)
            exit(run(number, racy));
        must(waitpid(child, &status, 0) == child, "waitpid");
        int code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
        printf("%c %s %s %d\n", by(number), cases[number].name, racy ? "racy" : "right", code);
    }
}

int main(int argc, char **argv)
{
    if (argc == 2 && !strcmp(argv[1], "list")) {
        for (int number = 0; number < CASES; number++)
            printf("%s: %s\n", cases[number].class, cases[number].name);
        return 0;
    }
    if (argc == 2 && !strcmp(argv[1], "all")) {
        run_all(1);
        run_all(0);
        return 0;
    }
    for (int number = 0; argc == 3 && number < CASES; number++)
        if (!strcmp(argv[1], cases[number].name))
            return run(number, !strcmp(argv[2], "racy"));
    fprintf(stderr, "usage: %s list | all | CASE racy|right\n", argv[0]);
    return 2;
}
