"""The slots that methods are composed of: criterion, class prior, retrieval, update, inference."""
