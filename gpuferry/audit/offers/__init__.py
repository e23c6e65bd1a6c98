"""What can be rented: offers that the user supplies, with prices that have a date."""
