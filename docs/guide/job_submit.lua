-- Holds new jobs of partition main for `allocopt live`, and wakes it. Put this file beside slurm.conf, and set
-- JobSubmitPlugins=lua there. If the service does not run, the jobs may start after `hold` seconds.

local hold = 30
local wake = "/run/allocopt/wake" -- the file of --wake

function slurm_job_submit(job, partitions, uid)
   local partition = job.partition or "main"
   if partition == "main" and job.begin_time == 0 and job.req_nodes == nil and job.array_inx == nil then
      job.begin_time = os.time() + hold
      job.admin_comment = "allocopt"
      local file = io.open(wake, "w")
      if file then
         file:write(job.begin_time)
         file:close()
      end
   end
   return slurm.SUCCESS
end

function slurm_job_modify(job, record, partitions, uid)
   return slurm.SUCCESS
end
