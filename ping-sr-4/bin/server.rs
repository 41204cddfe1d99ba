//! The server as a program; all of it is in [`ping_sr_4::server`].
#![cfg_attr(not(test), no_main)]

common::program!(ping_sr_4::server::main);
