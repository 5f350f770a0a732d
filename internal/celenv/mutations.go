package celenv

// Mutations allows the expressions that are compiled from now on to return mutations: values of type Object, and lists of JSONPatch.
func (c *Compiler) Mutations() error {
	if c.declared.Kind != Native {
		return nil // mutations are already allowed, or never allowed
	}
	extended, err := WithMutations(c.env)
	if err != nil {
		return err
	}
	c.env = extended
	c.planner, err = mutating(c.env)
	return err
}
