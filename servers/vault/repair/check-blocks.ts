import { recountBlocks } from '../../shared/content/content-recount.js'
import type { CheckParts } from './check-contents.js'
import { counted, type Finding } from './finding.js'

/** Whether each block is there as often as entries use it, and none that no entry uses. */
export function checkBlocks({ database, isDryRun }: CheckParts): Finding {
  const { unused, miscounted, unreadable } = recountBlocks(database, 'SELECT DISTINCT cid FROM entries', isDryRun)
  const repairs = unused + miscounted
  const text = [
    repairs === 0
      ? 'blocks: all used and counted right'
      : `blocks: ${counted(unused, 'unused block')}${isDryRun ? ' to remove' : ' removed'}, ${counted(miscounted, 'wrong use count')}${isDryRun ? ' to correct' : ' corrected'}`,
    ...(unreadable > 0 ? ['counts that are too high are not looked for while content is lost'] : [])
  ].join(', ')
  return { text, repairs, faults: 0 }
}
