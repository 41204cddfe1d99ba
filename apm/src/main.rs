#![doc = include_str!("../README.md")]
#![cfg_attr(not(test), no_main)]

mod apm;

common::program!(apm::main);
