//! One file for each command.

pub(crate) mod ask;
pub(crate) mod call;
pub(crate) mod chat;
pub(crate) mod completions;
pub(crate) mod config;
pub(crate) mod doctor;
pub(crate) mod grants;
pub(crate) mod inspect;
pub(crate) mod login;
pub(crate) mod logout;
pub(crate) mod man;
pub(crate) mod model;
pub(crate) mod pin;
pub(crate) mod policy;
pub(crate) mod prompt;
pub(crate) mod resource;
pub(crate) mod runs;
pub(crate) mod secrets;
pub(crate) mod serve;
pub(crate) mod server;
pub(crate) mod tools;
pub(crate) mod trust;
pub(crate) mod why;
