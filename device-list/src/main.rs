#![doc = include_str!("../README.md")]
#![cfg_attr(not(test), no_main)]

mod devices;

common::program!(devices::main);
