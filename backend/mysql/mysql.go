// Package mysql is where the backend for MySQL and MariaDB will be. There is
// none yet, and nothing is exported.
package mysql
