"""Many clusters together: several engines, local users beside a broker that chooses a site for each grid job."""
