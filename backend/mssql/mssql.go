// Package mssql is where the backend for SQL Server and Azure SQL will be.
// There is none yet, and nothing is exported.
package mssql
