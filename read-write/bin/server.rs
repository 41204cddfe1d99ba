//! The server as a program; all of it is in [`read_write::server`].

fn main() {
    read_write::server::main();
}
