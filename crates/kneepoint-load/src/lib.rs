//! kneepoint-load: see ARCHITECTURE.md.
