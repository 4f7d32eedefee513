// Package sure is for tests and for tools, where what is made with constant arguments cannot fail.
package sure

// Of returns what was made. It panics if there is an error.
func Of[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}
