//! The client as a program; all of it is in [`ping_sr_1::client`].
#![cfg_attr(not(test), no_main)]

common::program!(ping_sr_1::client::main);
