//! The server as a program; all of it is in [`read_write_0::server`].

fn main() {
    read_write_0::server::main();
}
