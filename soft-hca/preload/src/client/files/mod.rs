//! Files behind descriptors of the program's: device files as they were opened, and completion channels.
//!
//! Commands on a device file are not here: they change what the process does, and may make other files.
//!
//! | file | what |
//! | --- | --- |
//! | `table` | which descriptors are ours, and what stands behind each |
//! | `uverbs` | an opened uverbs device |
//! | `cm` | an opened connection manager device |
//! | `handles` | the objects of a device file by their handles |
//! | `channel` | completion channels |
//! | `tokens` | descriptors by which a program waits for events |
//! | `regions` | memory regions of a process whose memory is closed |
//! | `on_demand` | memory regions on demand |

pub(super) mod channel;
pub(super) mod cm;
pub(super) mod handles;
pub(super) mod on_demand;
pub(super) mod regions;
pub(super) mod table;
pub(super) mod tokens;
pub(super) mod uverbs;
