"""What people use today for the same job. They need packages of their own: rivals.lock."""
