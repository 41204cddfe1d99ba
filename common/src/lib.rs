//! What the examples share, and nothing that any of them teaches.
//!
//! | module | what it stands in for |
//! | --- | --- |
//! | [`addrinfo`] | `getaddrinfo(3)`, `gai_strerror(3)` |
//! | [`errno`] | `errno`, `strerror_r(3)`, `perror(3)` |
//! | [`getopt`] | `getopt(3)` and `getopt_long(3)`, over the `getopts` crate |
//! | [`memory`] | `calloc(3)`: zeroed memory that C code and the adapter may point into |
//! | [`number`] | `strtol(3)`, `strtoul(3)`, `atoi(3)` |
//! | [`mod@pipe`] | `pipe(2)` |
//! | [`mod@print`] | `fprintf(3)` to an unbuffered stream, `%p` |
//! | [`rdma_addrinfo`] | `rdma_getaddrinfo(3)` |
//! | [`utilities`] | `utilities.c` of the OpenFabrics suite, function by function |
//! | [`verbs`] | the texts of statuses and events, `VERB_ERR` |

pub mod addrinfo;
pub mod errno;
pub mod getopt;
pub mod memory;
pub mod number;
pub mod pipe;
pub mod print;
pub mod rdma_addrinfo;
pub mod utilities;
pub mod verbs;
