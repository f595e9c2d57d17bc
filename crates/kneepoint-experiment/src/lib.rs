//! kneepoint-experiment: see ARCHITECTURE.md.
