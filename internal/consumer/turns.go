package consumer

// turns returns the order in which queues have their turns: in each round every queue has as many as its weight says,
// spread evenly. Each turn gives every queue credit for its weight, and goes to the queue that has most.
func turns(weights []int) (order []int) {
	all := 0
	for _, w := range weights {
		all += w
	}
	credit := make([]int, len(weights))
	for range all {
		next := 0
		for i, w := range weights {
			credit[i] += w
			if credit[i] > credit[next] {
				next = i
			}
		}
		credit[next] -= all
		order = append(order, next)
	}
	return order
}

// inTurn returns the queues in the order in which a look tries them. It begins with the queue whose turn it is. A
// queue with nothing to be had leaves its turn to the next queue.
func (c *Consumer) inTurn() []*source {
	if len(c.sources) == 1 {
		return c.sources
	}
	c.mu.Lock()
	from := c.turn
	c.turn = (c.turn + 1) % len(c.turns)
	c.mu.Unlock()
	list := make([]*source, 0, len(c.sources))
	tried := make([]bool, len(c.sources))
	for i := 0; len(list) < len(c.sources); i++ {
		if n := c.turns[(from+i)%len(c.turns)]; !tried[n] {
			tried[n] = true
			list = append(list, c.sources[n])
		}
	}
	return list
}
