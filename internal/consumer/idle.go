package consumer

// manyClosed is how many connections a pool may close for being idle, between two signs of
// life, before a program is told. By default database/sql keeps two. A worker then opens
// connections as fast as it closes them, which takes longer than most messages.
const manyClosed = 50

// idleClosed is how many connections the pool has closed so far since they were idle.
func (c *Consumer) idleClosed() int64 {
	if closed := c.Can.IdleClosed; closed != nil {
		return closed()
	}
	return 0
}

// warnOfIdle compares that with before, and warns once.
func (c *Consumer) warnOfIdle(before int64) (now int64) {
	now = c.idleClosed()
	if now-before >= manyClosed && !c.warned {
		c.warned = true
		c.Log.Warn("parley: the pool closes idle connections and opens others: raise SetMaxIdleConns of its *sql.DB",
			"event", "pool.idle", "queue", c.name(), "closed", now-before, "in", aliveFor/3, "want", c.most()+SpareConns)
	}
	return now
}
