//! kneepoint-lab: see ARCHITECTURE.md.
