package scan

func (l *loop) poke() {
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

// maxOrders bounds the number of waiting requests; if there are more, all objects are checked.
const maxOrders = 10_000

func (l *loop) again(p pending) {
	l.mu.Lock()
	if len(l.orders) < maxOrders {
		l.orders = append(l.orders, p)
	}
	l.mu.Unlock()
	l.poke()
}

func (l *loop) taken() []pending {
	l.mu.Lock()
	defer l.mu.Unlock()
	orders := l.orders
	l.orders = nil
	return orders
}
