/*
 * Results of calls, for the programs here: those that have to succeed, and those that are printed.
 */
#ifndef RESULTS_H
#define RESULTS_H
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Ends the program, with errno's message, if a call has failed. */
static inline void check(int is_good, const char *what)
{
    if (!is_good) {
        perror(what);
        exit(1);
    }
}

#ifdef _GNU_SOURCE /* strerrorname_np */
/* Prints the result of a call that returns an error number. */
static inline void print_number(const char *call, int error)
{
    printf("%s: %s\n", call, error ? strerrorname_np(error) : "0");
}

/* Prints the result of a call that returns -1. */
static inline void print_status(const char *call, int result)
{
    print_number(call, result ? errno : 0);
}

/* Prints the result of a call that returns NULL. */
static inline void print_object(const char *call, const void *made)
{
    print_number(call, made ? 0 : errno);
}
#endif
#endif
