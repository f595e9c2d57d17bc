//! kneepoint-stack: see ARCHITECTURE.md.
