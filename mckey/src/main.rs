#![doc = include_str!("../README.md")]
#![cfg_attr(not(test), no_main)]

mod mckey;

common::program!(mckey::main);
