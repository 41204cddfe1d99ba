#![doc = include_str!("../README.md")]
#![cfg_attr(not(test), no_main)]

mod rdma_rc_example;

common::program!(rdma_rc_example::main);
