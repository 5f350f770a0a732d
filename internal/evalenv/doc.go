// Package evalenv holds what the evaluation of an expression may use beside its input, in any language: budget,
// world, image defaults and trace.
//
//	env := &evalenv.Env{Meter: meter, World: root.For(program.Reach())}
//	v, err := query.Search(env, data)
//
// It makes no decisions. The engine makes an Env; the languages read it.
//
// Floor 0: imports budget, imageref, trace and world.
package evalenv
