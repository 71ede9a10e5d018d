"""Policies that methods are composed of: criteria, priors, retrieval, storing, teachers, rules."""
