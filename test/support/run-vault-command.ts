import { readEnv } from '../../servers/config/read-env.js'
import { runVaultCommand } from '../../servers/vault/admin/command.js'

/** Runs `express-did-auth vault …` in this process, and answers its exit code and report. */
export async function runVault(
  args: readonly string[],
  env: Record<string, string>
): Promise<{ code: number; lines: string[] }> {
  const lines: string[] = []
  const code = await runVaultCommand(args, readEnv(env, 'vault', false), (line) => lines.push(line))
  return { code, lines }
}

/** What `vault reconcile` finds wrong, or does not find carried out; empty when all is in order. */
export async function findVaultFaults(env: Record<string, string>): Promise<string[]> {
  const { code, lines } = await runVault(['reconcile', '--dry-run'], env)
  return code === 0 ? lines.filter((line) => line.startsWith('open: ') && line !== 'open: no pins') : lines
}
