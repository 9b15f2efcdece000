import type { CommandLine } from '../../../servers/tools/command-line.js'

/** Runs a command in this process, and returns its exit code and the lines of its output. */
export async function runCommand(
  command: (commandLine: CommandLine) => Promise<number>,
  args: readonly string[],
  env: Readonly<Record<string, string | undefined>> = {},
  lines: string[] = []
): Promise<{ code: number; lines: string[] }> {
  const code = await command({ args, env, out: (line) => lines.push(line), isTerminal: false })
  return { code, lines }
}
