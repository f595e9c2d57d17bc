//! kneepoint: see ARCHITECTURE.md.
