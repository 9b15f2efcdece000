const SQLITE = 'SQLite is an experimental feature'

/**
 * Keeps one warning off standard error: that `node:sqlite` is experimental. The servers are tested with it on each Node that
 * has it, and an operator can do nothing about it. All other warnings are printed.
 */
export function silenceSqliteWarning(): void {
  const emit = process.emitWarning.bind(process) as (warning: string | Error, ...rest: unknown[]) => void
  process.emitWarning = (warning: string | Error, ...rest: unknown[]): void => {
    const message = typeof warning === 'string' ? warning : warning.message
    if (!message.startsWith(SQLITE)) emit(warning, ...rest)
  }
}
