package sqlite

// Many returns the statements for many rows.
func (s *Store) Many() any { return &s.pool.many }
